"""Published experiments and field reports, each a module; `catalogue` lists them."""

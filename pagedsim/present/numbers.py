"""Numbers as a person reads them: three digits that matter, a dash where there is none."""

from __future__ import annotations

NONE = "–"


def per_cent(share: float | None) -> str:
    """0.1234 is 12.3; what is above 0 never reads 0.0, what is below 1 never 100.0."""
    if share is None:
        return NONE
    if 0 < share < 0.0005:
        return "<0.1"
    if 0.9995 <= share < 1:
        return ">99.9"
    return f"{100 * share:.1f}"


def significant(value: float | None) -> str:
    """Three digits that matter, more where whole digits need them, no exponent: 0.0123, 1,234."""
    if value is None:
        return NONE
    if value == 0:
        return "0"
    for bound, digits in ((99.95, 0), (9.995, 1), (0.9995, 2), (0.09995, 3)):
        if abs(value) >= bound:
            return f"{value:,.{digits}f}"
    return f"{value:.4f}" if abs(value) >= 0.00005 else "<0.0001"


def count(value: int) -> str:
    """1,234; from 100,000 on shortened: 123k, 4.56M, 7.89G."""
    if abs(value) < 100_000:
        return f"{value:,}"
    for unit, name in ((10**12, "T"), (10**9, "G"), (10**6, "M")):
        if abs(value) >= unit * 0.9995:
            return f"{significant(value / unit)}{name}"
    return f"{value / 1000:.0f}k"


def requests(number: int) -> str:
    """1 request, 2,000 requests."""
    return f"{number:,} request{'' if number == 1 else 's'}"


def bytes_(value: float) -> str:
    """512 B, 128 KiB, 2.5 GiB, up to 9,999 TiB."""
    for unit, name in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if value >= unit:
            return f"{value / unit:,.4g} {name}"
    return f"{value:,.4g} B"


def plain(text: str, width: int) -> str:
    """`text` without control characters, its middle cut out where it is wider than `width`."""
    from rich.cells import cell_len, set_cell_size

    clean = "".join(char if char.isprintable() else "?" for char in text)
    if cell_len(clean) <= width:
        return clean
    head = set_cell_size(clean, (width - 1) * 2 // 3).rstrip()
    tail = ""
    for char in reversed(clean):
        if cell_len(head) + 1 + cell_len(char + tail) > width:
            break
        tail = char + tail
    return f"{head}…{tail}"


__all__ = ["NONE", "bytes_", "count", "per_cent", "plain", "requests", "significant"]

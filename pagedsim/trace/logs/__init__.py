"""Logs of requests as traces: what people have, without the text that they may not share.

stream     bytes of a file, decompressed a piece at a time, as lines or JSON values
recognise  which format a file has, by its first value
objects, spans, conversations, bench, sheet   readers, one a family of formats: values to `Record`
tokens, blocks   what a prompt holds, as hashes of blocks: exact with a tokenizer, else estimated
gather     records to the columns of a `Trace`
read       all of it: `from_logs`

The law of this room: no text of a log leaves it. Messages name files, lines and keys that pagedsim
knows or was given, never a value or an unknown key, and nothing is kept but counts and hashes.
"""

"""The part of the real package's layout that others import: `sglang.srt.server_args`."""

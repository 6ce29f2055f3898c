"""A run against another: response data in, what differs out; see docs/compare.md."""

"""The designs of all charts, authored with Altair."""

"""The three flows, each on a screen: build a report, compare runs, list reports."""

"""The teaching side of Keel: worlds to break, the gauntlet, widgets, exercises. It stands on the harness."""

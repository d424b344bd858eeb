"""The order of the chapters, and which chapter builds what."""

CHAPTERS = ("00", "01", "02", "03", "04", "05", "06", "07", "07b", "08", "09", "10", "11", "12", "13", "14")

# Chapters whose part of the harness exists. A later one is grey in every picture.
BUILT = frozenset({"00", "01", "02", "03", "04", "05", "06", "07", "07b", "08", "09", "10", "11", "12", "13", "14"})


def position(chapter: str) -> int:
    """Where a chapter stands in the course. Raises ValueError for a name that is none."""
    if chapter not in CHAPTERS:
        raise ValueError(f"there is no chapter {chapter!r}; there are {', '.join(CHAPTERS)}")
    return CHAPTERS.index(chapter)

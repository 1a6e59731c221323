"""Regular expressions of Java, translated to Python's.

    pattern           from the text of a pattern to a compiled one
    reading           the characters of a pattern, one by one: quoting, white space that does not count, numbers
    classes           character classes, with unions and intersections
    characters        sets of characters
    properties        the names in \\p{...}, with their sets
    unicode_tables    scripts, and properties that Python does not know

Rules: pure. What is accepted matches as in Java 17; what cannot be translated is refused by an error of its own. Unicode's
data are those of the Python that runs, but for the tables.
"""

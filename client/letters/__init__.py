"""What record headers say about a record that is to come later, again, or not at all. Pure.

headers     the table of all headers, what a record's headers mean, and what is written into them
"""

"""A topology in the words of each framework: ``to_options`` prints it, ``from_options`` reads it back.

One file to a framework. What a framework can't say is an error, never left out in silence.
"""

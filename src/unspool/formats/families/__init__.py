"""The declarations, one module for each group of families that share a syntax.

Every module here has ``FORMATS``, and is found by being here.
"""

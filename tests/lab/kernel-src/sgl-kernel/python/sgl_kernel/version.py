__version__ = "0.4.2.post2"

"""CANN, wrapped once, for every framework of this repository.

Kept empty on purpose: the start-up hook imports this package in every Python process of the environment.
"""

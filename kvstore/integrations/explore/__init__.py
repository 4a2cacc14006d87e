"""The explorer: a local web interface to a store.

:mod:`.application` is the Starlette application, and :mod:`.serving` runs it (``kvstore explore STORE``). Each page is
a module with a ``PAGE``; see :mod:`.page`. Needs the ``explore`` extra. Pages load nothing from other sites.
"""

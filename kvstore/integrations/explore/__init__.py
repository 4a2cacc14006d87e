"""The explorer: what a store knows, looked at in a browser on this machine.

:mod:`.application` is the whole as an application of Starlette, :mod:`.serving` runs it (``kvstore explore STORE``). A
page is one module with one ``PAGE``; see :mod:`.page`. Needs the extra ``explore``; nothing is loaded from elsewhere.
"""

"""svr-async: judge preference pairs with rubrics, fast and without losing a call.

Importing this package reads no file, opens no socket and loads neither aiohttp nor JAX.
"""

__version__ = "0.1.0"
__all__ = ["__version__"]

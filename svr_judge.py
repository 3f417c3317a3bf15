"""The judge of svr-async as a plug-in of verifiers, which finds judges by the name of a module at the top."""

from svr_async.serving.hooks.verifiers import SvrJudge

__all__ = ["SvrJudge"]

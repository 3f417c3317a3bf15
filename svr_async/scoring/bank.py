"""The rubric bank: its content, with the way to its files and back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from svr_async.scoring.bank_content import UNIFORM, BankContent, BankRubric, Floats, InferenceSettings

__all__ = ["UNIFORM", "BankRubric", "Floats", "InferenceSettings", "RubricBank"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RubricBank(BankContent):
    """Everything that scoring with a trained bank needs: `BankContent` has the fields, this the files."""

    @classmethod
    def load(cls, folder: str | Path, *, offline: bool = False) -> Self:
        """Read and check a bank: a folder, or `hf:user/name` of the hub.

        `offline` takes what was fetched before. UsageError where there is none, ArtefactError where it fails a check.
        """
        from svr_async.scoring.bank_files import load_bank
        from svr_async.scoring.bank_hub import locate_bank

        return load_bank(locate_bank(str(folder), offline=offline), cls)

    def save(self, folder: str | Path) -> str:
        """Write the bank's files, each whole, and return the bank's digest."""
        from svr_async.scoring.bank_files import save_bank

        return save_bank(self, Path(folder))

    def __repr__(self) -> str:
        from svr_async.scoring.bank_view import in_short

        return f"<Bank {self.name or 'without a name'}, {in_short(self)}>"

    def _repr_html_(self) -> str:
        from svr_async.core.table import to_html
        from svr_async.scoring.bank_view import bank_sheet

        return to_html(bank_sheet(self))

    @property
    def digest(self) -> str:
        """SHA-256 of the bank's content: the same for the same bank, whatever folder it lies in."""
        from svr_async.scoring.bank_files import bank_digest

        return bank_digest(self)

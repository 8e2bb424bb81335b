"""What MkDocs calls while the documentation's site is built (`make docs`): the page of settings is made here."""

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from experiments.cli.settings_reference import page


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated page to the written ones."""
    files.append(File.generated(config, "settings.md", content=page()))
    return files

"""Settings objects whose constants are other ones."""

from typing import Any, TypeVar

Settings = TypeVar("Settings")


def with_constants(cls: type[Settings], *arguments: Any, **values: Any) -> Settings:
    """A settings object; of the keywords, those that are constants of its class are set on it alone."""
    fields = cls.__dataclass_fields__  # type: ignore[attr-defined]
    settable = {name for name, field in fields.items() if field._field_type.name == "_FIELD"}
    settings = cls(*arguments, **{name: value for name, value in values.items() if name in settable})
    for name in values.keys() - settable:
        object.__setattr__(settings, name, values[name])
    return settings

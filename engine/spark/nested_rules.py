"""Rules inside arrays, maps and structs: texts of limited length, and values that cannot be null.

Spark checks rows by columns of functions; for batches, values are checked one by one.
"""

from collections.abc import Iterator
from functools import reduce
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from engine.schema.text_lengths import has_limits, limit_of, render_declared_type
from engine.schema.types import ArrayType, DataType, MapType, StructField, StructType


def is_bounded(data_type: DataType) -> bool:
    """Whether values of the type must be checked inside; a struct's own fields do not count."""
    match data_type:
        case ArrayType(element, nulls):
            return not nulls or _is_bounded_inside(element)
        case MapType(key, value, nulls):
            return not nulls or _is_bounded_inside(key) or _is_bounded_inside(value)
        case StructType(fields):
            return any(is_bounded(field.type) or has_limits(field.type) for field in fields)
        case _:
            return False


def _is_bounded_inside(data_type: DataType) -> bool:
    required = isinstance(data_type, StructType) and any(
        not field.nullable or _is_bounded_inside(field.type) for field in data_type
    )
    return required or has_limits(data_type) or is_bounded(data_type)


def type_shown(data_type: DataType) -> str:
    """Render the type for people: `array<varchar(3) not null>`."""
    match data_type:
        case ArrayType(element, nulls):
            return f"array<{type_shown(element)}{'' if nulls else ' not null'}>"
        case MapType(key, value, nulls):
            return f"map<{type_shown(key)},{type_shown(value)}{'' if nulls else ' not null'}>"
        case StructType(fields):
            return f"struct<{','.join(map(_field_shown, fields))}>"
        case _:
            return render_declared_type(data_type)


def _field_shown(field: StructField) -> str:
    return f"{field.name}:{type_shown(field.type)}{'' if field.nullable else ' not null'}"


def fit_text_lengths(value: Column, data_type: DataType) -> Column:
    """Fit texts as Spark stores them: cut spaces beyond a limit, pad CHAR with spaces."""
    result = value
    match data_type:
        case _ if not has_limits(data_type):
            pass
        case ArrayType(element):
            result = F.transform(value, lambda item: fit_text_lengths(item, element))
        case MapType(key, held):
            keys = F.transform_keys(value, lambda item, _: fit_text_lengths(item, key))
            result = F.transform_values(keys, lambda _, item: fit_text_lengths(item, held))
        case StructType(fields):
            parts = [fit_text_lengths(value.getField(f.name), f.type).alias(f.name) for f in fields]
            result = F.when(value.isNotNull(), F.struct(*parts))
        case _:
            result = _text(value, *limit_of(data_type))
    return result


def _text(value: Column, kind: str, length: int) -> Column:
    fits = (F.length(value) <= length) | (F.length(F.rtrim(value)) > length)
    cut = F.when(fits, value).otherwise(F.substring(value, 1, length))
    if kind != "char":
        return cut
    return F.when(F.length(cut) < length, F.rpad(cut, length, " ")).otherwise(cut)


def keeps(value: Column, data_type: DataType, *, inside: bool = False) -> Column:
    """Whether a value is one of the type; null is one. Fields of structs are requested `inside` alone."""
    kind, length = limit_of(data_type)
    holds = (
        [F.length(value) <= length] if kind else list(_iter_rules(value, data_type, inside=inside))
    )
    return value.isNull() | reduce(lambda one, other: one & other, holds, F.lit(True))


def _iter_rules(value: Column, data_type: DataType, *, inside: bool) -> Iterator[Column]:
    match data_type:
        case ArrayType(element, nulls):
            yield _each(value, element, nulls=nulls)
        case MapType(key, held, nulls):
            yield _each(F.map_keys(value), key, nulls=True)
            yield _each(F.map_values(value), held, nulls=nulls)
        case StructType(fields):
            for field in fields:
                part = value.getField(field.name)
                yield keeps(part, field.type, inside=inside)
                if inside and not field.nullable:
                    yield part.isNotNull()
        case _:
            return


def _each(values: Column, data_type: DataType, *, nulls: bool) -> Column:
    def holds(item: Column) -> Column:
        kept = keeps(item, data_type, inside=True)
        return kept if nulls else item.isNotNull() & kept

    return F.forall(values, holds)


def value_keeps(value: Any, data_type: DataType, *, inside: bool = False) -> bool:  # noqa: ANN401
    """Whether one value, as Arrow gives it to Python, keeps the rules of its type."""
    kind, length = limit_of(data_type)
    if value is None or kind:
        return value is None or len(value) <= length
    match data_type:
        case ArrayType(element, nulls):
            return all(_value_held(item, element, nulls=nulls) for item in value)
        case MapType(key, held, nulls):
            return all(
                _value_held(k, key, nulls=True) and _value_held(v, held, nulls=nulls)
                for k, v in value
            )
        case StructType(fields):
            return all(
                value_keeps(value[field.name], field.type, inside=inside)
                and not (inside and not field.nullable and value[field.name] is None)
                for field in fields
            )
        case _:
            return True


def value_fitted(value: Any, data_type: DataType) -> Any:  # noqa: ANN401 - as Arrow gives it to Python
    """Fit one value as `fit_text_lengths` does, unless a CHAR is inside; equal keys stay."""
    _, length = limit_of(data_type)
    if value is None or not has_limits(data_type):
        return value
    match data_type:
        case ArrayType(element):
            return [value_fitted(item, element) for item in value]
        case MapType(key, held):
            pairs = [(value_fitted(k, key), value_fitted(v, held)) for k, v in value]
            return pairs if len({repr(k) for k, _ in pairs}) == len(pairs) else value
        case StructType(fields):
            return {f.name: value_fitted(value[f.name], f.type) for f in fields}
        case _:
            fits = len(value) <= length or len(value.rstrip(" ")) > length
            return value if fits else value[:length]


def _value_held(value: Any, data_type: DataType, *, nulls: bool) -> bool:  # noqa: ANN401
    return (nulls or value is not None) and value_keeps(value, data_type, inside=True)

"""Feast's offline store on Delta tables: history as of a time, and materialization."""

from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest
from feast import Entity, FeatureStore, FeatureView, Field, RepoConfig, ValueType
from feast.infra.offline_stores.contrib.spark_offline_store.spark_source import SparkSource
from feast.types import Int64
from pyspark.sql import SparkSession

FEATURES = ["stats:trips"]
START = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = [(1, START, 10), (1, START + timedelta(days=1), 11), (2, START, 20)]


@pytest.fixture(scope="module")
def spark():
    session = SparkSession.builder.master("local[2]").getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def store(spark, tmp_path):
    """Return a store with one feature view over a Delta table, by its name: Feast reads no paths of Delta."""
    frame = spark.createDataFrame(ROWS, "driver_id long, event_timestamp timestamp, trips long")
    frame.write.format("delta").mode("overwrite").saveAsTable("stats")
    config = RepoConfig(
        project="shop",
        provider="local",
        registry=str(tmp_path / "registry.db"),
        offline_store={"type": "spark"},
        online_store={"type": "sqlite", "path": str(tmp_path / "online.db")},
        entity_key_serialization_version=3,
    )
    driver = Entity(name="driver", join_keys=["driver_id"], value_type=ValueType.INT64)
    view = FeatureView(
        name="stats",
        entities=[driver],
        ttl=timedelta(days=90),
        schema=[Field(name="driver_id", dtype=Int64), Field(name="trips", dtype=Int64)],
        source=SparkSource(name="stats_source", timestamp_field="event_timestamp", table="stats"),
        online=True,
    )
    store = FeatureStore(config=config)
    store.apply([driver, view])
    return store


def history(store, *moments):
    entities = pd.DataFrame(moments, columns=["driver_id", "event_timestamp"])
    return store.get_historical_features(entity_df=entities, features=FEATURES)


def test_history_is_that_of_each_moment(store):
    late = START + timedelta(hours=30)
    found = history(store, (1, START), (1, late), (2, late)).to_df()
    assert sorted(zip(found.driver_id, found.trips, strict=True)) == [(1, 10), (1, 11), (2, 20)]


def test_the_latest_features_are_materialized(store):
    store.materialize(START - timedelta(days=1), START + timedelta(days=2))
    rows = [{"driver_id": 1}, {"driver_id": 2}]
    found = store.get_online_features(features=FEATURES, entity_rows=rows).to_dict()
    assert found["trips"] == [11, 20]

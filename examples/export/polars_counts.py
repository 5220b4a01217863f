import sys, polars
events = polars.scan_parquet(f"{sys.argv[1]}/*/*.parquet", hive_partitioning=True, missing_columns="insert", extra_columns="ignore")
counts = events.group_by("event").len().sort("event").collect()
for name, count in counts.iter_rows():
    print(name, count)

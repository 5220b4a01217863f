import sys, duckdb
events = duckdb.read_parquet(f"{sys.argv[1]}/*/*.parquet", hive_partitioning=True, union_by_name=True)
counts = duckdb.sql("SELECT event, count(*) FROM events GROUP BY event ORDER BY event")
for name, count in counts.fetchall():
    print(name, count)

import sys, duckdb
calls = duckdb.read_parquet(f"{sys.argv[1]}/_syscalls.parquet")
rows = duckdb.sql("SELECT number, count(*), quantile_disc(duration_ns, 0.99) FROM calls GROUP BY number ORDER BY number")
for number, count, p99 in rows.fetchall():
    print(number, count, p99)

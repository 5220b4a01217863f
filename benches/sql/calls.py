"""The 99th percentile of each system call by thread, over a Parquet file of system calls."""

import sys
import time

import duckdb

duckdb.sql("SELECT 1").fetchall()
begin = time.perf_counter()
calls = duckdb.read_parquet(sys.argv[1])
rows = duckdb.sql(
    "SELECT tid, number, count(*), quantile_cont(duration_ns, 0.99) FROM calls"
    " GROUP BY tid, number ORDER BY tid, number"
).fetchall()
print(time.perf_counter() - begin)
for tid, number, count, p99 in rows:
    print(f"{tid},{number},{count},{p99}")

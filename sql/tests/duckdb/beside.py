"""Random conditions and groups: `kymo-query` over a trace beside DuckDB over its exported tables.

Usage: beside.py KYMO-QUERY TRACE TABLES NUMBER
"""

import csv
import random
import subprocess
import sys

import duckdb

QUERY, TRACE, TABLES, NUMBER = sys.argv[1:]
# The longest query of kymo-query, in bytes.
LONGEST = 16 << 10
# Of each table: numbers, and columns with few values.
COLUMNS = {
    "events": (["ns"], ["cpu", "name", "stream"]),
    "slices": (["begin_ns", "duration_ns"], ["cpu", "tid", "thread", "pid", "process"]),
    "off_cpu": (["end_ns", "duration_ns"], ["cpu", "tid", "thread"]),
    "wakeups": (["duration_ns"], ["cpu", "tid", "waker", "waker_tid"]),
    "syscalls": (["begin_ns", "duration_ns"], ["cpu", "tid", "number", "name", "failed"]),
    "interrupts": (["begin_ns", "duration_ns"], ["cpu", "number", "name", "soft"]),
    "lock_waits": (["duration_ns"], ["tid", "number", "name", "owner_tid", "owner"]),
    "lock_holds": (["duration_ns"], ["tid", "number", "name"]),
}


def tables():
    """DuckDB with a view for each table, under the names of kymo-query."""
    database = duckdb.connect()
    database.sql(
        "CREATE VIEW events AS SELECT time_ns AS ns, cpu, event AS name, stream FROM "
        f"read_parquet('{TABLES}/*/*.parquet', hive_partitioning=true, union_by_name=true)"
    )
    for table in COLUMNS:
        if table != "events":
            path = f"{TABLES}/_{table}.parquet"
            database.sql(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{path}')")
    return database


def literal(value):
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def condition(of, table, rows, depth):
    """A condition on a table, with values that some of its rows have."""
    numbers, words = COLUMNS[table]
    column = of.choice(numbers + words)
    values = [row[column] for row in of.choices(rows, k=2) if row[column] is not None]
    kind = of.randrange(8 if depth else 5)
    if kind == 5:
        return f"not ({condition(of, table, rows, depth - 1)})"
    if kind > 5:
        one, other = (condition(of, table, rows, depth - 1) for _ in range(2))
        return f"({one} {'and' if kind == 6 else 'or'} {other})"
    if not values:
        return f"{column} is null"
    if column in numbers:
        low, high = min(values), max(values)
        forms = [f"{column} >= {low}", f"{column} < {high}", f"{low} < {column}"]
        forms += [f"{column} between {low} and {high}", f"{column} % 7 = {low % 7}"]
        return forms[kind]
    value = literal(values[0])
    both = ", ".join(literal(value) for value in values)
    forms = [f"{column} = {value}", f"{column} <> {value}", f"{column} in ({both})"]
    forms += [f"{column} is not null", f"{column} not in ({both})"]
    if isinstance(values[0], str) and kind == 3:
        return f"{column} like {literal(values[0][:3] + '%')}"
    return forms[kind]


def query(of, number, samples):
    table = of.choice(list(COLUMNS))
    numbers, words = COLUMNS[table]
    key, sum_of = of.choice(words), of.choice(numbers)
    conditions = [condition(of, table, samples[table], 2) for _ in range(of.randint(1, 3))]
    return (
        f"select {number} as query, cast({key} as varchar) as k, count(*) as n, "
        f"min({sum_of}) as low, sum({sum_of} % 1000) as total from {table} "
        f"where {' and '.join(conditions)} group by {key}"
    )


def batches(queries):
    """The queries, as many in one as are allowed."""
    batch, length = [], 0
    for query in queries:
        if batch and length + len(query.encode()) + 11 > LONGEST:
            yield batch
            batch, length = [], 0
        batch.append(query)
        length += len(query.encode()) + 11
    yield batch


def answer(sql):
    """What kymo-query says."""
    command = [QUERY, TRACE, "--format=csv", sql]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = list(csv.reader(output.splitlines()))[1:]
    return sorted(tuple(row) for row in rows)


def main():
    database, of, seed = tables(), random.Random(18), 18
    samples = {}
    for table, (numbers, words) in COLUMNS.items():
        columns = numbers + words
        sql = f"SELECT {', '.join(columns)} FROM {table} ORDER BY ALL"
        rows = database.sql(sql).fetchall()
        if not rows:
            sys.exit(f"the trace has no {table}")
        samples[table] = [dict(zip(columns, row)) for row in of.sample(rows, min(500, len(rows)))]
    queries = [query(of, number, samples) for number in range(int(NUMBER))]
    empty = 0
    for batch in batches(queries):
        found = answer(" union all ".join(batch))
        wanted = []
        for sql in batch:
            rows = database.sql(sql).fetchall()
            empty += not rows
            wanted += [tuple("" if cell is None else str(cell) for cell in row) for row in rows]
        for query_of in batch if found != sorted(wanted) else []:
            number = query_of.split()[1]
            one = [row for row in found if row[0] == number]
            other = sorted(row for row in wanted if row[0] == number)
            if one != other:
                sys.exit(f"{query_of}\nkymo-query: {one}\nDuckDB:     {other}")
    if empty > len(queries) / 2:
        sys.exit("most queries have no rows")
    print(f"{len(queries)} queries of seed {seed}: the rows of DuckDB, {empty} of them without any")


main()

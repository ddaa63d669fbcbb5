"""Rows with nulls and duplicates, and queries that both Spark's SQL and the engine support."""

from datetime import date
from decimal import Decimal

DATA = {
    "people": (
        "id long, name string, age int, city string, joined date",
        [
            (1, "Ann", 30, "Oslo", date(2026, 1, 1)),
            (2, "Bob", None, "Rome", date(2026, 2, 1)),
            (3, "Cid", 41, None, date(2026, 2, 1)),
            (4, "Dan", 30, "Oslo", None),
            (None, "Eve", 25, "Rome", date(2026, 3, 1)),
        ],
    ),
    "orders": (
        "id long, person long, amount decimal(10,2), paid boolean, weight double",
        [
            (10, 1, Decimal("5.00"), True, 1.5),
            (11, 1, Decimal("7.25"), False, None),
            (12, 2, None, None, 2.5),
            (13, None, Decimal("1.00"), True, 0.5),
            (14, 9, Decimal("7.25"), True, 3.0),
            (14, 9, Decimal("7.25"), True, 3.0),
        ],
    ),
    "cities": (
        "city string, place struct<land: string, size: int>, tags array<string>",
        [("Oslo", ("NO", 7), ["n"]), ("Rome", ("IT", 28), []), (None, None, None)],
    ),
}

QUERIES = [
    "SELECT * FROM people",
    "SELECT id FROM people",
    "SELECT p.id, p.name AS who FROM people AS p WHERE age > 26 OR city IS NULL",
    "SELECT name n, age + 1 older, upper(name), joined + INTERVAL 7 DAYS FROM people",
    "SELECT id, CASE WHEN age > 35 THEN 'old' ELSE 'young' END kind FROM people",
    "SELECT DISTINCT age, city FROM people",
    "SELECT place.land, c.place.size FROM cities c WHERE c.place.size > 7",
    "SELECT 1 AS one, 'x' AS letter, NULL AS nothing",
    "SELECT id FROM people ORDER BY age DESC NULLS FIRST, name LIMIT 3",
    "SELECT name, age FROM people ORDER BY 2, 1 DESC",
    "SELECT name AS n FROM people ORDER BY age + id, n LIMIT 2 OFFSET 1",
    "SELECT p.name, o.amount FROM people p JOIN orders o ON p.id = o.person",
    "SELECT p.name, o.amount FROM people p LEFT JOIN orders o ON p.id = o.person AND o.paid",
    "SELECT p.name, o.id FROM people p LEFT JOIN orders o ON p.id = o.person WHERE o.id IS NULL",
    "SELECT p.name, o.id FROM people p RIGHT OUTER JOIN orders o ON p.id = o.person",
    "SELECT p.name, o.id FROM people p FULL JOIN orders o ON p.id = o.person AND p.age = 30",
    "SELECT p.name FROM people p LEFT SEMI JOIN orders o ON p.id = o.person",
    "SELECT p.name FROM people p LEFT ANTI JOIN orders o ON p.id = o.person AND amount > 6",
    "SELECT p.name, c.city FROM people p CROSS JOIN cities c",
    "SELECT p.name, c.city FROM people p, cities c WHERE p.city = c.city",
    "SELECT * FROM people JOIN cities USING (city)",
    "SELECT city, people.city, name FROM people LEFT JOIN cities USING (city)",
    "SELECT city, name FROM people RIGHT JOIN cities USING (city)",
    "SELECT city, name FROM people FULL OUTER JOIN cities USING (city)",
    "SELECT a.id, b.id FROM people a JOIN people b ON a.age = b.age AND a.id <> b.id",
    "SELECT p.name, o.id, c.place FROM people p JOIN orders o ON p.id = o.person"
    " LEFT JOIN cities c ON c.city = p.city WHERE o.paid IS NOT FALSE",
    "SELECT count(*), count(age), sum(age), min(name), max(joined), avg(age) FROM people",
    "SELECT count(DISTINCT age), sum(DISTINCT age) FROM people",
    "SELECT sum(amount), avg(amount), avg(weight), stddev(weight) FROM orders",
    "SELECT city, count(*) AS n FROM people GROUP BY city",
    "SELECT city AS town, count(*) AS n FROM people GROUP BY town HAVING n > 1",
    "SELECT city, sum(age) FROM people GROUP BY 1 HAVING count(*) > 1 AND min(age) > 20",
    "SELECT city, age, count(*) FROM people GROUP BY ALL",
    "SELECT upper(city) || '!' AS c, max(age) FROM people GROUP BY upper(city)",
    "SELECT person, sum(amount) FILTER (WHERE paid) AS paid, count_if(paid) FROM orders GROUP BY person",
    "SELECT city FROM people GROUP BY city ORDER BY count(*) DESC, city NULLS LAST LIMIT 2",
    "SELECT place.land AS land, count(*) FROM cities GROUP BY place.land",
    "SELECT bool_and(paid), bool_or(paid), max_by(id, weight) FROM orders",
    "SELECT id, row_number() OVER (PARTITION BY person ORDER BY id) AS rn FROM orders WHERE id < 14",
    "SELECT name, rank() OVER (ORDER BY age DESC NULLS LAST), dense_rank() OVER (ORDER BY age) FROM people",
    "SELECT name, sum(age) OVER (PARTITION BY city) AS total, count(*) OVER () FROM people",
    "SELECT name, lag(name) OVER (ORDER BY name), lead(age, 1, 0) OVER (ORDER BY name) FROM people",
    "SELECT name, sum(age) OVER (ORDER BY name ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM people",
    "SELECT * EXCEPT (rn) FROM (SELECT *, row_number() OVER (PARTITION BY id ORDER BY weight) AS rn"
    " FROM orders) WHERE rn = 1",
    "SELECT city, count(*) n, rank() OVER (ORDER BY count(*) DESC) r FROM people GROUP BY city",
    "SELECT id FROM people UNION ALL SELECT person FROM orders",
    "SELECT id FROM people UNION SELECT person FROM orders",
    "SELECT age FROM people UNION SELECT amount FROM orders",
    "SELECT id FROM people INTERSECT SELECT person FROM orders",
    "SELECT person FROM orders EXCEPT SELECT id FROM people",
    "SELECT person FROM orders EXCEPT ALL SELECT id FROM people",
    "SELECT id FROM people UNION ALL SELECT id FROM orders INTERSECT SELECT person FROM orders",
    "(SELECT id FROM people ORDER BY id DESC LIMIT 1) UNION ALL SELECT 0",
    "SELECT NULL AS a UNION ALL SELECT 1 UNION ALL SELECT 2.5",
    "VALUES (1, 'a'), (2, NULL), (NULL, 'c')",
    "SELECT v.a, p.name FROM (VALUES (1L, 'x'), (2L, 'y')) AS v(a, b) JOIN people p ON p.id = v.a",
    "WITH old AS (SELECT * FROM people WHERE age >= 30) SELECT city, count(*) FROM old GROUP BY city",
    "WITH a AS (SELECT id FROM people), b(x) AS (SELECT id FROM a WHERE id > 1)"
    " SELECT a.id, b.x FROM a JOIN b ON a.id <= b.x",
    "SELECT name FROM people WHERE id IN (SELECT person FROM orders)",
    "SELECT name FROM people WHERE id NOT IN (SELECT person FROM orders)",
    "SELECT name FROM people WHERE id NOT IN (SELECT person FROM orders WHERE person IS NOT NULL)",
    "SELECT name FROM people WHERE NOT (id IN (SELECT person FROM orders WHERE person > 0) OR age = 25)",
    "SELECT name FROM people WHERE id IN (SELECT person FROM orders) OR city = 'Rome'",
    "SELECT name FROM people WHERE id NOT IN (SELECT person FROM orders WHERE amount > 6) AND age > 1",
    "SELECT name FROM people WHERE id NOT IN (SELECT person FROM orders WHERE FALSE)",
    "SELECT name FROM people p WHERE EXISTS (SELECT 1 FROM orders o WHERE o.person = p.id AND o.paid)",
    "SELECT name FROM people p WHERE NOT EXISTS (SELECT * FROM orders WHERE person = p.id)",
    "SELECT name FROM people WHERE age > (SELECT avg(age) FROM people)",
    "SELECT name FROM people p WHERE age >= (SELECT max(age) FROM people q WHERE q.city = p.city)",
    "SELECT name, (SELECT count(*) FROM orders o WHERE o.person = p.id) AS n FROM people p",
    "SELECT name, (SELECT count(amount) + coalesce(sum(weight), 0) FROM orders WHERE person = p.id AND paid)"
    " AS n FROM people p",
    "SELECT name FROM people p WHERE 0 IN (SELECT count(*) FROM orders o WHERE o.person = p.id)",
    "SELECT name, (SELECT id FROM orders o WHERE o.person = p.id ORDER BY id DESC LIMIT 1) AS last FROM people p",
    "SELECT name FROM people p WHERE city IN (SELECT city FROM cities c WHERE c.place.size > p.age - 25)",
    "SELECT city FROM people GROUP BY city HAVING count(*) > (SELECT min(id) FROM people)",
    "SELECT p.name FROM people p JOIN orders o ON p.id = o.person AND o.amount IN (SELECT max(amount) FROM orders)",
    "SELECT coalesce(age, 0) * 2 AS a, length(name) FROM people WHERE name LIKE '%a%' AND age BETWEEN 1 AND 50",
    "SELECT count(*) FILTER (WHERE name LIKE '_%i%'), max(name LIKE '%a%_') OVER () FROM people GROUP BY name",
    "SELECT name FROM people p WHERE EXISTS (SELECT 1 FROM cities c WHERE c.city LIKE concat('%', p.city, '%')"
    " AND p.city LIKE '%o%_')",
    "SELECT max(total) FROM (SELECT person, sum(amount) AS total FROM orders GROUP BY person) AS t",
]
NOT_IN_SPARK = {
    "SELECT name FROM people QUALIFY row_number() OVER (PARTITION BY city ORDER BY name) = 1": (
        "SELECT name FROM (SELECT name, row_number() OVER (PARTITION BY city ORDER BY name) AS rn "
        "FROM people) WHERE rn = 1"
    ),
}
"""Queries that Spark's SQL may not take, and what they say."""

REFUSED = {
    "SELECT name FROM people p WHERE EXISTS (SELECT person FROM orders WHERE person = p.id"
    " GROUP BY person HAVING count(*) > 1)": "GROUP BY and uses a column of the outer query",
    "SELECT name, (SELECT DISTINCT person FROM orders WHERE person = p.id) FROM people p": (
        "DISTINCT and uses a column of the outer query"
    ),
    "SELECT name FROM people p WHERE id IN (SELECT person FROM orders WHERE id > p.age UNION ALL SELECT 1)": (
        "UNION and uses a column of the outer query"
    ),
    "SELECT name FROM people p WHERE EXISTS (SELECT id FROM orders EXCEPT SELECT p.id)": (
        "EXCEPT and uses a column of the outer query"
    ),
    "SELECT name FROM people p WHERE age > (SELECT max(p.age) FROM orders)": "where it cannot",
    "SELECT name FROM people p WHERE 1 IN (SELECT rank() OVER (ORDER BY p.id) FROM orders)": (
        "where it cannot"
    ),
    "SELECT name FROM people p WHERE EXISTS (VALUES (p.id))": "where it cannot",
}
"""Subqueries that Spark's SQL may take and the engine does not, and what it says of them."""

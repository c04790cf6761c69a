"""What interpreters do most: small objects, dictionaries, text."""


def sums(n):
    d = {}
    for i in range(n):
        d[i % 1000] = d.get(i % 1000, 0) + i * i % 7
    return sum(d.values())


class Cell:
    def __init__(self, x):
        self.x = x

    def next(self):
        return self.x + 1


total = 0
for i in range(800000):
    total += Cell(i).next()
print(sums(3000000), total, len("".join(str(i) for i in range(600000))))

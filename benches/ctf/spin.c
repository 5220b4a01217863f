/* A program whose time goes to a known function by a known chain of callers, for perf. */
#include <stdint.h>
#include <stdlib.h>

static volatile uint64_t sum;

static void innermost(uint64_t rounds)
{
	for (uint64_t round = 0; round < rounds; round++)
		sum += round;
}

static void outermost(uint64_t rounds)
{
	innermost(rounds);
	sum++;
}

int main(int count, char **words)
{
	outermost(count > 1 ? strtoull(words[1], NULL, 10) : 0);
	return 0;
}

/* The port of a machine with one CPU, whose clock goes on by one with each look at it. */
#ifndef ONE_CPU_H
#define ONE_CPU_H
#include "port.h"

uint32_t this_cpu;
int masked;
static uint64_t now;
static uintptr_t masks; /* calls of kymo_port_mask */

uint64_t kymo_port_clock(void) { return ++now; }
uint64_t kymo_port_frequency(void) { return 1000000; }
uint32_t kymo_port_cpu(void) { return 0; }
uintptr_t kymo_port_mask(void) { return masks++; }
void kymo_port_unmask(uintptr_t saved) { (void)saved; }

#endif

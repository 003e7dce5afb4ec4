/* SPDX-License-Identifier: Apache-2.0 */
/* limits.h — limits of the process (ulimit), which batch systems pass on from the login
 * node. */
#ifndef PENTA_LIMITS_H
#define PENTA_LIMITS_H

#include "penta/base/status.h"

#include <stdbool.h>

/* Raises the soft limits to the hard ones; makes writes beyond `ulimit -f` and writes
 * to closed pipes fail instead of ending the process. Called before the constructors of
 * the libraries, some of which need more stack than the limit may allow.
 * Returns false, after a message: the stack is too small, the process must end. */
bool limits_take(void);
/* Makes SIGXCPU come before the end of the CPU time (`ulimit -t`), early enough for a
 * save: a tenth of that time before the end, at most 5 minutes. */
void limits_take_cpu_time(void);
/* Called before and after the start of MPI, which crashes, hangs or ends the process if
 * limits are too low. Refuses limits that cannot work. If the process ends in between,
 * it lists its limits. Only the first rank of a host prints.
 * Fails: MEMORY, CONFIG (common). */
pt_status_t limits_before_mpi(void);
void limits_after_mpi(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* limits.h — limits of the process (ulimit), which batch systems hand on from the login node. */
#ifndef PENTA_LIMITS_H
#define PENTA_LIMITS_H

#include "penta/base/status.h"

#include <stdbool.h>

/* Raises what may be raised, and has writes beyond `ulimit -f`, and into pipes that nobody reads, fail instead of
 * ending the process. Called before the constructors of the libraries, of which some need more stack than a
 * process may have. False, with a message: the stack is too small, leave. */
bool limits_take(void);
/* Has SIGXCPU come before the end of the CPU time (`ulimit -t`), early enough for a save: by a tenth of that time, 5
 * minutes at most. */
void limits_take_cpu_time(void);
/* Around the start of MPI, which crashes, tries for ever, or ends the process where limits are low:
 * refuses what cannot work, and has a process that ends there say which limits it has. Of the ranks of
 * a host only the first speaks. Fails: MEMORY, CONFIG (common). */
pt_status_t limits_before_mpi(void);
void limits_after_mpi(void);

#endif

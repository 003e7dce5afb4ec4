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
/* Around the start of MPI, which crashes, tries for ever, or ends the process where limits are low:
 * refuses what cannot work, and has a process that ends there say which limits it has. Of the ranks of
 * a host only the first speaks. Fails: MEMORY, CONFIG (common). */
pt_status_t limits_before_mpi(void);
void limits_after_mpi(void);

#endif

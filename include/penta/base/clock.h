/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h — time (layer: base). */
#ifndef PENTA_CLOCK_H
#define PENTA_CLOCK_H

#include <stddef.h>

double pt_clock_sec(void);  /* monotonic */
double pt_clock_wall(void); /* seconds since 1970 */
/* The time of pt_clock_wall() as "2026-01-31T12:00:00Z"; returns buffer. */
const char *pt_clock_iso(char *buffer, size_t size);
/* The same for a time `wall` in seconds since 1970. */
const char *pt_clock_iso_at(double wall, char *buffer, size_t size);

#endif

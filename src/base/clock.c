/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/clock.h"

#include <time.h>

static double clock_seconds_of(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double pt_clock_sec(void)
{
    return clock_seconds_of(CLOCK_MONOTONIC);
}

double pt_clock_wall(void)
{
    return clock_seconds_of(CLOCK_REALTIME);
}

const char *pt_clock_iso_at(double wall, char *buffer, size_t size)
{
    time_t moment = (time_t)wall;
    struct tm tm;

    gmtime_r(&moment, &tm);
    if (strftime(buffer, size, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0 && size > 0)
        buffer[0] = '\0';
    return buffer;
}

const char *pt_clock_iso(char *buffer, size_t size)
{
    return pt_clock_iso_at(pt_clock_wall(), buffer, size);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Times as [HH:]MM:SS, the format of Slurm. */
#include "src/config/private.h"

#include <stdio.h>
#include <string.h>

bool pt_time_read(const char *text, int64_t *sec)
{
    int64_t part[3];
    int parts = 0;

    for (;;) {
        size_t digits = strspn(text, "0123456789");
        char number[8];

        if (digits == 0 || digits >= sizeof number || parts == 3)
            return false;
        snprintf(number, sizeof number, "%.*s", (int)digits, text);
        if (!pt_text_int(number, &part[parts++]))
            return false;
        text += digits;
        if (!*text)
            break;
        if (*text++ != ':')
            return false;
    }
    if (parts < 2 || part[parts - 1] > 59 || (parts == 3 && part[1] > 59))
        return false;
    *sec = part[parts - 1] + 60 * part[parts - 2] + (parts == 3 ? 3600 * part[0] : 0);
    return *sec > 0;
}

void pt_time_text(int64_t sec, char *buffer, size_t size)
{
    int minutes = (int)(sec / 60 % 60), seconds = (int)(sec % 60);

    if (sec < 3600)
        snprintf(buffer, size, "%02d:%02d", minutes, seconds);
    else
        snprintf(buffer, size, "%02lld:%02d:%02d", (long long)(sec / 3600), minutes,
                 seconds);
}

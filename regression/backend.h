/* SPDX-License-Identifier: Apache-2.0 */
/* What a test computes with, by the environment that regression/driver.sh sets. */
#ifndef PT_REGRESSION_BACKEND_H
#define PT_REGRESSION_BACKEND_H

#include "penta/base/device_kind.h"

#include <stdlib.h>
#include <string.h>

static inline pt_device_kind_t backend_find(const char *word)
{
#define PT_DEVICE_KIND(name, word_)                                                    \
    if (strcmp(word, word_) == 0)                                                      \
        return PT_DEVICE_##name;
    PT_DEVICE_KINDS(PT_DEVICE_KIND)
#undef PT_DEVICE_KIND
    return PT_DEVICE_DRY;
}

/* PENTA_TEST_BACKEND, or else the CPU. */
static inline pt_device_kind_t backend_of_test(void)
{
    const char *word = getenv("PENTA_TEST_BACKEND");

    return word && *word ? backend_find(word) : PT_DEVICE_CPU;
}

/* PENTA_TEST_ISA, or else the highest this CPU has. */
static inline pt_isa_t isa_of_test(void)
{
    const char *word = getenv("PENTA_TEST_ISA");

#define PT_ISA_LEVEL(name, word_)                                                      \
    if (word && strcmp(word, word_) == 0)                                              \
        return PT_ISA_##name;
    PT_ISA_LEVELS(PT_ISA_LEVEL)
#undef PT_ISA_LEVEL
    return PT_ISA_AUTO;
}

#endif

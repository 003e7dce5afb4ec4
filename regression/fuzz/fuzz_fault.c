/* SPDX-License-Identifier: Apache-2.0 */
/* The text of PENTA_FAULT. */
#include "penta/base/fault.h"
#include "regression/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);

    fuzz_begin();
    setenv("PENTA_FAULT", text, 1);
    fuzz_refusal(pt_fault_init(), PT_CONFIG, PT_CONFIG);
    unsetenv("PENTA_FAULT");
    free(text);
    fuzz_end();
    return 0;
}

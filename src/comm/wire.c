/* What all wires share. */
#include "src/comm/wire.h"

#include "penta/alloc.h"
#include "penta/text.h"

#include <stdlib.h>
#include <unistd.h>

void pt_wire_close(pt_wire_t *wire)
{
    if (wire)
        wire->ops->close(wire);
}

void pt_wire_abort(pt_wire_t *wire, int exit_code)
{
    wire->ops->abort(wire, exit_code);
}

void pt_wire_leave(pt_wire_t *wire, int exit_code)
{
    (void)wire;
    _exit(exit_code);
}

pt_status_t pt_wire_group_new(int rank, int size, pt_wire_group_t **out)
{
    PT_TRY(PT_NEW("group of ranks", 1, out));
    **out = (pt_wire_group_t){.rank = rank, .size = size};
    return PT_OK;
}

int pt_wire_launched_rank(void)
{
    static const char *const names[] = {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK",
                                        "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *text = getenv(names[i]);
        int64_t rank;
        if (text && pt_text_int(text, &rank) && rank >= 0 && rank < INT32_MAX)
            return (int)rank;
    }
    return 0;
}

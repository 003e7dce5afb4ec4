/* program.h — a block of the model as a table of nodes (private to src/model).
 *
 * A block (embedding, attention, ffn, head) is a program: a list of nodes. A node is of a kind (norm, linear,
 * attend, …), reads and writes tensors of the block, and uses rows of the parameter table. A kind is written
 * once, in three passes,
 *
 *   forward   makes the output
 *   input     turns the gradient of the output into that of the inputs
 *   weight    adds to the gradients of the parameters
 *
 * and declares which operands each pass reads and writes. Everything else follows from that table:
 * until when a tensor is kept and so where it lives (place.c), which nodes recompute runs again, whether an
 * input's gradient is written or added to, and the checks that nobody reads what nobody wrote, or a
 * partial sum as if it were whole. A new layer is another table; a new axis adds nodes to it. */
#ifndef PT_MODEL_PROGRAM_H
#define PT_MODEL_PROGRAM_H

#include "penta/model/arch.h"
#include "penta/parallel/units.h"

typedef struct pt_call pt_call_t;
typedef struct pt_node pt_node_t;
typedef struct pt_program pt_program_t;

typedef enum pt_pass {
    PT_PASS_FORWARD,
    PT_PASS_INPUT,
    PT_PASS_WEIGHT,
    PT_PASSES
} pt_pass_t;

/* What a node works with. x2 is a second input; stats are what forward leaves for the input pass beside y;
 * parts are this micro-batch's gradients of vectors, which the input pass makes and the weight pass adds
 * (adding them at once would round differently when the weight pass comes later). The gradients dx, dx2 and dy
 * belong to x, x2 and y and need not be named. */
typedef enum pt_operand {
    PT_X,
    PT_X2,
    PT_Y,
    PT_STAT,
    PT_STAT2,
    PT_PART,
    PT_PART2,
    PT_NAMED_OPERANDS,
    PT_DX = PT_NAMED_OPERANDS,
    PT_DX2,
    PT_DY,
    PT_OPERANDS
} pt_operand_t;
/* Operands of a node with one input and one output. */
#define PT_OPERANDS_XY(x, y)                                                           \
    {                                                                                  \
        (x), PT_ABSENT, (y), PT_ABSENT, PT_ABSENT, PT_ABSENT, PT_ABSENT                \
    }
#define PT_USE(operand) (1u << PT_##operand)
#define PT_USE_STATS    (PT_USE(STAT) | PT_USE(STAT2))
#define PT_USE_PARTS    (PT_USE(PART) | PT_USE(PART2))

typedef struct pt_node_pass {
    unsigned reads, writes; /* PT_USE(operand); what is changed in place is in both */
    pt_status_t (*run)(const pt_call_t *call, const pt_node_t *node); /* NULL: nothing */
} pt_node_pass_t;

typedef struct pt_node_kind {
    const char *name;
    pt_node_pass_t pass[PT_PASSES];
    bool cheap;    /* forward again costs little beside a matrix product */
    bool adds_dx;  /* can add to dx what others have put there */
    bool in_place; /* dx is made where dy is */
    bool past;     /* dy is also the gradient of x2, as it is */
    /* How the operands are spread over the ranks of `axis`: sets y's, refuses what the kind cannot read. NULL: an
     * element-wise kind, whose y is spread as x is. */
    pt_status_t (*spread)(pt_program_t *program, const pt_node_t *node, pt_axis_t axis);
} pt_node_kind_t;

enum { PT_NODE_ROLES = 2 };

struct pt_node {
    const pt_node_kind_t *kind;
    int operand[PT_OPERANDS];      /* tensors of the block; PT_ABSENT */
    pt_role_t role[PT_NODE_ROLES]; /* PT_ROLE_COUNT: none. Which is which: the kind says */
    pt_dropout_site_t dropout;     /* residuals */
    bool accumulate; /* follows: dx holds another reader's share already */
    bool weighted;   /* follows: it has parameters, so its weight pass has work */
};

/* x and y of a block are the residual stream; in the backward pass one buffer is turned from dy into dx. */
enum {
    PT_TENSOR_X,
    PT_TENSOR_Y,
    PT_TENSOR_STREAM_GRADIENT,
    PT_TENSORS_COMMON,
    PT_ABSENT = -1
};

typedef struct pt_block_tensor {
    const char *name; /* that of its owner, for gradients */
    bool is_gradient;
    pt_tensor_t shape; /* as planned, without memory; ndim 0: this block has none */
    bool by_rows;      /* dimension 0 is the rows of the micro-batch */
    int same_as;       /* lives in this tensor's memory; PT_ABSENT: has its own */
    int gradient;      /* of it; PT_ABSENT */
    /* Follow from the nodes: bits 1 << pass. */
    unsigned written, read;
    bool replayed; /* only weight passes read it, and its node is cheap */
} pt_block_tensor_t;

/* One pass of one node. */
typedef struct pt_step {
    const pt_node_t *node;
    pt_pass_t pass;
} pt_step_t;

/* Orders of steps, fixed when the model is planned, so equal on all ranks. */
typedef enum pt_list {
    PT_LIST_FORWARD,
    PT_LIST_AGAIN, /* forward, as far as backward needs it */
    PT_LIST_INPUT,
    PT_LIST_REPLAY, /* forward of what weight passes read and was not kept */
    PT_LIST_WEIGHT,
    PT_LISTS
} pt_list_t;

enum { PT_PROGRAM_NODES = 32, PT_PROGRAM_TENSORS = 64 };

/* What the sizes in a program come from. Borrowed. */
typedef struct pt_program_context {
    const pt_arch_t *arch;
    const pt_param_table_t *table;
    const pt_units_t *units;
    const pt_mesh_shape_t *mesh;
    int64_t rows;
    bool training;
} pt_program_context_t;

struct pt_program {
    const char *name; /* where's site */
    pt_program_context_t context;
    int layer;          /* whose parameters give the sizes; -1: outside the layers */
    pt_status_t status; /* of the first call that failed; later ones do nothing */
    int nodes, tensors;
    pt_node_t node[PT_PROGRAM_NODES];
    pt_block_tensor_t tensor[PT_PROGRAM_TENSORS];
    int steps[PT_LISTS];
    pt_step_t list[PT_LISTS][PT_PROGRAM_NODES];
};

/* ---- describing a block: program.c ---- */

/* All errors are INTERNAL and come from pt_program_end. */
void pt_program_begin(const char *name, const pt_program_context_t *context, int layer,
                      pt_program_t *out);
/* Adds a tensor and returns its index: [rows, cols] in T; [rows] (cols 0) or [rows, cols] in A; `count` elements of
 * `dtype`, the same for every micro-batch size. `name`: static. */
int pt_program_rows(pt_program_t *program, const char *name, int64_t cols);
int pt_program_stats(pt_program_t *program, const char *name, int64_t cols);
int pt_program_vector(pt_program_t *program, const char *name, pt_dtype_t dtype,
                      int64_t count);
/* `tensor` lives where `host` does. */
void pt_program_share(pt_program_t *program, int tensor, int host);
/* For nodes that work with more than operands (embedding, head): written in one pass, last read in another. */
void pt_program_use(pt_program_t *program, int tensor, pt_pass_t written,
                    pt_pass_t read);
/* Adds a node: kind, operands (PT_OPERANDS in number, those of its gradients apart), roles. */
void pt_program_node(pt_program_t *program, const pt_node_t *node);
/* Derives all that follows and checks it. A weight pass comes right after its input pass (`fused`) or not; then
 * `selective` says that replayed tensors are not kept. */
pt_status_t pt_program_end(pt_program_t *program);

bool pt_program_has(const pt_program_t *program, pt_role_t role);
/* Of this rank's shard of a parameter of the block: dimension 0 is the width that a linear layer makes, 1 the
 * width it takes. */
int64_t pt_program_size(const pt_program_t *program, pt_role_t role, int dim);
/* Is the tensor spread over the axis like that? An axis of one rank spreads nothing. */
pt_dist_t pt_program_spread(const pt_program_t *program, int tensor, pt_axis_t axis);
void pt_program_set_spread(pt_program_t *program, int tensor, pt_axis_t axis,
                           pt_dist_t dist);
/* Refuses to read a partial sum, or (`dim` >= 0) a cut along `dim`. */
pt_status_t pt_program_expect_whole(const pt_program_t *program, const pt_node_t *node,
                                    pt_operand_t operand, pt_axis_t axis, int dim);

/* ---- kinds: nodes/ ---- */

extern const pt_node_kind_t pt_norm_node, pt_head_norm_node, pt_linear_node,
    pt_rotary_node, pt_attend_node, pt_activate_node, pt_residual_node;

/* x -> y = norm(x); the weights of `weight`, and of `bias` where the model has it. */
void pt_add_norm(pt_program_t *program, int x, int y, pt_role_t weight, pt_role_t bias);
/* q|k|v in x -> q|k in y, each head normalised with Q_NORM and K_NORM. */
void pt_add_head_norm(pt_program_t *program, int x, int y);
/* y = x·Wᵀ + bias. */
void pt_add_linear(pt_program_t *program, int x, int y, pt_role_t weight,
                   pt_role_t bias);
/* Turns q and k, at the start of x, by their positions, in place. */
void pt_add_rotary(pt_program_t *program, int x);
/* y = attention of q and k at the start of `qk` and v at the end of `qkv` (which may be the same). */
void pt_add_attend(pt_program_t *program, int qk, int qkv, int y);
/* y = activation(x + bias); x keeps the bias. */
void pt_add_activate(pt_program_t *program, int x, int y, pt_role_t bias);
/* y = past + dropout(branch + bias), in the memory of the branch. */
void pt_add_residual(pt_program_t *program, int past, int branch, int y, pt_role_t bias,
                     pt_dropout_site_t site);

/* ---- blocks: blocks/ ---- */

void pt_describe_embedding(pt_program_t *program);
void pt_describe_attention(pt_program_t *program);
void pt_describe_ffn(pt_program_t *program);
void pt_describe_head(pt_program_t *program);

#endif

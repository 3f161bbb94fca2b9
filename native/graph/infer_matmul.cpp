#include <cctype>
#include <map>

#include "graph/shapes.h"

namespace npu::graph {
namespace {

/// int8 and int4 products are summed in int32.
DataType product_dtype(const Context& c) {
    DataType x1 = c.dtype("x1"), x2 = c.dtype("x2");
    if (x1 != x2) c.fail("x1 and x2 differ in data type; put a Cast before one of them");
    return x1 == ACL_INT8 || x1 == ACL_INT4 ? ACL_INT32 : x1;
}

void check_bias(const Context& c, int64_t columns) {
    if (c.op.inputs.size() < 3 || !c.has("bias") || !c.ranked("bias") || c.dims("bias").empty()) return;
    int64_t length = c.dims("bias").back();
    if (length != 1 && !same_size(length, columns))
        c.fail("bias has not as many elements as the product has columns");
}

/// Of the last two dimensions; a vector is a row on the left and a column on the right, and gone from the
/// result, as in NumPy.
Dims multiplied(const Context& c, Dims x1, Dims x2, bool transpose_x1, bool transpose_x2) {
    if (x1.empty() || x2.empty()) c.fail("a scalar cannot be multiplied as a matrix");
    bool row = x1.size() == 1, column = x2.size() == 1;
    if (row) x1.insert(x1.begin(), 1), transpose_x1 = false;
    if (column) x2.push_back(1), transpose_x2 = false;
    if (transpose_x1) std::swap(x1[x1.size() - 1], x1[x1.size() - 2]);
    if (transpose_x2) std::swap(x2[x2.size() - 1], x2[x2.size() - 2]);
    int64_t rows = x1[x1.size() - 2], columns = x2.back(), inner = x1.back();
    if (!same_size(inner, x2[x2.size() - 2]))
        c.fail("the inner sizes differ: " + std::to_string(inner) + " and " +
               std::to_string(x2[x2.size() - 2]));
    check_bias(c, columns);
    Dims out = broadcast(c, Dims(x1.begin(), x1.end() - 2), Dims(x2.begin(), x2.end() - 2));
    if (!row) out.push_back(rows);
    if (!column) out.push_back(columns);
    return out;
}

void matmul(Context& c) {
    c.out(product_dtype(c), [&] {
        if (c.rank("x1") > 2 || c.rank("x2") > 2)
            c.fail("it multiplies two matrices; BatchMatMulV2 multiplies batches of them");
        return multiplied(c, c.dims("x1"), c.dims("x2"), c.flag("transpose_x1"), c.flag("transpose_x2"));
    });
}

void batch_matmul(Context& c) {
    c.out(product_dtype(c),
          [&] { return multiplied(c, c.dims("x1"), c.dims("x2"), c.flag("adj_x1"), c.flag("adj_x2")); });
}

Dims permuted(const Context& c, const Dims& x, const Dims& perm) {
    if (x.size() != 3) c.fail("x1 and x2 should have three dimensions");
    Dims out;
    for (int64_t axis : perm.empty() ? Dims{0, 1, 2} : perm) out.push_back(x[axis_of(c, axis, x.size())]);
    return out;
}

/// [batch, m, k] times [batch, k, n], both permuted before; the result is [m, batch, n]. With a scale it is
/// quantised: refused.
void transpose_batch_matmul(Context& c) {
    if (c.has("scale") || c.integer("batch_split_factor") != 1)
        c.fail("a scale or a batch_split_factor is not supported");
    c.out(product_dtype(c), [&] {
        Dims x1 = permuted(c, c.dims("x1"), c.integers("perm_x1")),
             x2 = permuted(c, c.dims("x2"), c.integers("perm_x2"));
        if (x1.size() != 3 || x2.size() != 3) c.fail("perm_x1 and perm_x2 have three entries");
        Dims y = multiplied(c, x1, x2, false, false);
        return Dims{y[1], y[0], y[2]};
    });
}

void fused_matmul(Context& c) {
    matmul(c);
    if (c.has("x3") && c.results[0].type.is_static() && c.in("x3").type.is_static())
        broadcast(c, c.results[0].type.dims, c.dims("x3"));
}

/// x1 is given by its entries and its shape.
void sparse_matmul(Context& c) {
    if (c.dtype("x1_values") != c.dtype("x2")) c.fail("x1_values and x2 differ in data type");
    c.out(c.dtype("x2"), [&] {
        Dims x1 = c.need_value("x1_shape"), x2 = c.dims("x2");
        if (x1.size() != 2 || x2.size() != 2) c.fail("x1_shape and x2 should be matrices");
        if (c.flag("adjoint_a")) std::swap(x1[0], x1[1]);
        if (c.flag("adjoint_b")) std::swap(x2[0], x2[1]);
        if (!same_size(x1[1], x2[0])) c.fail("the inner sizes differ");
        return Dims{x1[0], x2[1]};
    });
}

void square(Context& c) {
    c.out(c.dtype("x"), [&] {
        const Dims& x = c.dims("x");
        if (x.size() < 2 || !same_size(x[x.size() - 1], x[x.size() - 2]))
            c.fail("x should be square matrices");
        return x;
    });
}

void triangular_solve(Context& c) {
    if (c.dtype("matrix") != c.dtype("rhs")) c.fail("matrix and rhs differ in data type");
    c.out(c.dtype("rhs"), [&] {
        const Dims& matrix = c.dims("matrix");
        if (matrix.size() < 2 || !same_size(matrix[matrix.size() - 1], matrix[matrix.size() - 2]))
            c.fail("matrix should be square");
        return multiplied(c, matrix, c.dims("rhs"), false, false);
    });
}

/// The sizes that an einsum's subscripts name, operand by operand. An ellipsis is refused.
Dims einsum_dims(const Context& c, const std::string& equation) {
    std::map<char, int64_t> sizes;
    auto operands = c.all("x");
    std::size_t operand = 0, dim = 0, at = 0;
    for (; at < equation.size() && equation[at] != '-'; ++at) {
        char letter = equation[at];
        if (letter == ' ') continue;
        if (letter == ',') {
            if (operand < operands.size() && dim != operands[operand].type.dims.size())
                c.fail("the equation does not name every dimension");
            ++operand, dim = 0;
            continue;
        }
        if (!std::isalpha(static_cast<unsigned char>(letter)))
            c.fail("the equation " + equation + " is not supported");
        if (operand >= operands.size() || dim >= operands[operand].type.dims.size())
            c.fail("the equation names more dimensions than there are");
        int64_t size = operands[operand].type.dims[dim++];
        auto [known, fresh] = sizes.emplace(letter, size);
        if (!fresh && !same_size(known->second, size))
            c.fail(std::string("the equation gives two sizes to ") + letter);
        if (known->second < 0) known->second = size;
    }
    if (equation.compare(at, 2, "->") != 0) c.fail("the equation should say its result after \"->\"");
    if (operand + 1 != operands.size() || dim != operands[operand].type.dims.size())
        c.fail("the equation does not name every dimension");
    Dims out;
    for (char letter : equation.substr(at + 2)) {
        if (letter == ' ') continue;
        auto known = sizes.find(letter);
        if (known == sizes.end()) c.fail(std::string("no operand has the dimension ") + letter);
        out.push_back(known->second);
    }
    return out;
}

void einsum(Context& c) {
    c.out(common_dtype(c), [&] {
        for (const Operand& operand : c.all("x"))
            if (!operand.type.ranked) c.unknown();
        return einsum_dims(c, c.text("equation"));
    });
}

constexpr Rule kRules[] = {
    {"BatchMatMul", batch_matmul},
    {"BatchMatMulV2", batch_matmul},
    {"BatchMatMulV3", batch_matmul},
    {"MatMul", matmul},
    {"MatMulV2", matmul},
    {"TransposeBatchMatMul", transpose_batch_matmul},
    {"FusedMatMul", fused_matmul},
    {"MatMulV3", matmul},
    {"Cholesky", square},
    {"MatrixInverse", square},
    {"MatrixTriangularSolve", triangular_solve},
    {"Einsum", einsum},
    {"SparseTensorDenseMatMul", sparse_matmul, {"x1_shape"}},
};

}  // namespace

std::span<const Rule> matmul_rules() { return kRules; }

}  // namespace npu::graph

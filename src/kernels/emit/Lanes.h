//===- Lanes.h - a value as the lanes of a vector see it --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Kernels are written once, per element, and run `width` elements at a time. A
// value that is equal in all lanes stays scalar. An index that grows by a
// constant from lane to lane stays scalar too (its value in lane 0). Other
// values become vectors. With width 1 everything is scalar.

#ifndef ANABRANCH_KERNELS_EMIT_LANES_H
#define ANABRANCH_KERNELS_EMIT_LANES_H

#include "mlir/IR/Builders.h"
#include "native/isa/Isa.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <vector>

namespace anabranch {
namespace kernels {

struct Lanes {
  enum class Kind { Uniform, Linear, Varying };

  Kind kind = Kind::Uniform;
  /// Uniform: the scalar. Linear: the scalar of lane 0. Varying: the vector.
  mlir::Value value;
  /// Linear: lane i is `value + step * i`. Never zero.
  int64_t step = 0;
  /// Linear: `value` is known to be a multiple of this.
  int64_t multiple = 1;
  /// Linear: all active lanes have the same quotient by this size; 0: unknown.
  int64_t uniformQuotient = 0;

  static Lanes uniform(mlir::Value scalar) {
    return {Kind::Uniform, scalar, 0, 1, 0};
  }
  static Lanes linear(mlir::Value first, int64_t step = 1, int64_t multiple = 1,
                      int64_t uniformQuotient = 0) {
    return {Kind::Linear, first, step, multiple, uniformQuotient};
  }
  static Lanes varying(mlir::Value vector) {
    return {Kind::Varying, vector, 0, 1, 0};
  }

  bool isUniform() const { return kind == Kind::Uniform; }
  bool isLinear() const { return kind == Kind::Linear; }
  bool isVarying() const { return kind == Kind::Varying; }
  bool operator==(const Lanes &other) const {
    return kind == other.kind && value == other.value && step == other.step;
  }
};

/// The type of one lane: of a vector its element type, else the type.
mlir::Type laneType(mlir::Value value);

class LaneBuilder;

/// The bits of a scalar or a vector as another type of the same width. A chain
/// of such casts becomes one cast, so that no value passes through a type that
/// the processor may lack.
mlir::Value castBits(LaneBuilder &lanes, mlir::Value value, mlir::Type element);

/// Creates operations on lanes at one insertion point. Pure operations are
/// shared: if an equal one dominates, `make` returns that one. Values made
/// inside a Scope end with it, so open a Scope for every region.
class LaneBuilder {
public:
  LaneBuilder(mlir::OpBuilder &builder, mlir::Location loc,
              const native::Isa &isa);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  /// The instructions that the operations may become.
  const native::Isa &isa;

  /// The number of lanes, and which of them are active: a vector<width x i1>,
  /// or null when all are. Always null for width 1.
  int64_t width = 1;
  mlir::Value mask;
  /// Whether `mask` may leave lane 0 or all lanes inactive. Then even an
  /// address that all lanes share must be read under the mask. In a loop's tail
  /// lane 0 is active.
  bool maybeEmpty = false;

  //===-- Scopes ---------------------------------------------------------===//

  class Scope {
  public:
    explicit Scope(LaneBuilder &lanes);
    ~Scope();
    Scope(const Scope &) = delete;

  private:
    LaneBuilder &lanes;
  };

  /// Sets the width and the mask while it lives, in a scope of its own.
  class MaskGuard {
  public:
    MaskGuard(LaneBuilder &lanes, int64_t width, mlir::Value mask,
              bool maybeEmpty = false);
    ~MaskGuard();

  private:
    LaneBuilder &lanes;
    int64_t width;
    mlir::Value mask;
    bool maybeEmpty;
    Scope scope;
  };

  /// The number of open scopes. Values remembered at a depth end with it.
  size_t depth() const { return scopes.size(); }
  /// Calls `action` when the innermost scope ends.
  void atScopeEnd(std::function<void()> action);

  //===-- Scalars --------------------------------------------------------===//

  /// Creates an operation, or returns an equal one if it is pure and was made
  /// before.
  template <typename OpTy, typename... Args> mlir::Value make(Args &&...args) {
    mlir::SmallVector<mlir::Value, 1> results;
    mlir::Operation *last = lastMade();
    builder.createOrFold<OpTy>(results, loc, std::forward<Args>(args)...);
    bool isNew = lastMade() != last && results[0].getDefiningOp() == lastMade();
    return share(results[0], isNew);
  }
  /// The shared form of an operation's result. An operation that is new may be
  /// erased. One that a fold returned may not: code that is yet to be made may
  /// use it.
  mlir::Value share(mlir::Value value, bool isNew = true);

  mlir::Value index(int64_t value);
  mlir::Value i64(int64_t value);
  mlir::Value constant(mlir::TypedAttr value);
  mlir::Value toI64(mlir::Value index);
  /// Scalar `index` arithmetic with constants folded.
  mlir::Value addIndex(mlir::Value a, mlir::Value b);
  mlir::Value subIndex(mlir::Value a, mlir::Value b);
  mlir::Value mulIndex(mlir::Value a, mlir::Value b);
  mlir::Value divIndex(mlir::Value a, mlir::Value b);
  mlir::Value ceilDivIndex(mlir::Value a, mlir::Value b);
  mlir::Value remIndex(mlir::Value a, mlir::Value b);
  mlir::Value minIndex(mlir::Value a, mlir::Value b);
  mlir::Value maxIndex(mlir::Value a, mlir::Value b);

  //===-- Index lanes ----------------------------------------------------===//

  Lanes indexLanes(int64_t value) { return Lanes::uniform(index(value)); }
  Lanes add(Lanes a, Lanes b);
  Lanes sub(Lanes a, Lanes b);
  Lanes mul(Lanes a, Lanes b);
  /// Quotient and remainder of an index by a positive size. The index is
  /// nonnegative in every active lane.
  std::pair<Lanes, Lanes> divRem(Lanes a, mlir::Value size);

  //===-- Any lanes ------------------------------------------------------===//

  /// The type of a varying value with these elements.
  mlir::Type vectorType(mlir::Type element) const;
  /// The vector of `width` lanes; with width 1 the scalar.
  mlir::Value vector(Lanes lanes);
  /// 0, 1, 2, ... as a vector of `element` (index or an integer type).
  mlir::Value iota(mlir::Type element);
  Lanes wrap(mlir::Value scalarOrVector) const;
  /// The mask of the lanes below `count`; of none for a count of zero or less.
  mlir::Value prefixMask(mlir::Value count);
  /// `mask` and the condition. Null means all lanes.
  mlir::Value andMask(Lanes condition);
  /// arith.maximumf or minimumf: NaN if one operand is. Of two zeros it returns
  /// either.
  mlir::Value extremum(bool largest, mlir::Value a, mlir::Value b);
  /// condition ? a : b per lane.
  Lanes select(Lanes condition, Lanes a, Lanes b);

  //===-- Control --------------------------------------------------------===//

  using LoopBody = llvm::function_ref<mlir::SmallVector<mlir::Value>(
      mlir::Value iv, mlir::ValueRange carried)>;
  /// for (iv = low; iv < high; iv += step), in a scope of its own.
  mlir::SmallVector<mlir::Value> loop(mlir::Value low, mlir::Value high,
                                      int64_t step, mlir::ValueRange initial,
                                      LoopBody body);
  void loop(mlir::Value low, mlir::Value high, int64_t step,
            llvm::function_ref<void(mlir::Value iv)> body);
  /// if (condition) ..., with one value for each result type from both sides.
  using Side = llvm::function_ref<mlir::SmallVector<mlir::Value>()>;
  mlir::SmallVector<mlir::Value>
  ifElse(mlir::Value condition, mlir::TypeRange types, Side yes, Side no);
  void ifThen(mlir::Value condition, llvm::function_ref<void()> body);

private:
  struct PureInfo : llvm::DenseMapInfo<mlir::Operation *> {
    static unsigned getHashValue(const mlir::Operation *op);
    static bool isEqual(const mlir::Operation *a, const mlir::Operation *b);
  };
  struct OpenScope {
    llvm::DenseMap<mlir::Operation *, char, PureInfo> made;
    std::vector<std::function<void()>> ends;
  };
  std::vector<std::unique_ptr<OpenScope>> scopes;

  void push();
  void pop();
  std::pair<mlir::Value, mlir::Value> divRemFirst(mlir::Value first,
                                                  mlir::Value size);
  Lanes divRemFallback(Lanes a, mlir::Value size, bool quotient);
  mlir::Operation *lastMade() const;
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_EMIT_LANES_H

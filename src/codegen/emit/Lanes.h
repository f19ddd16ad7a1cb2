//===- Lanes.h - a value as the lanes of a vector see it --------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// Kernels are written once, per element, and run `width` elements at a time.
// A value that is the same in all lanes stays scalar; an index that grows by a
// constant per lane stays scalar too (its value in lane 0); only what truly
// differs becomes a vector. With width 1 everything is scalar.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_EMIT_LANES_H
#define ANABRANCH_CODEGEN_EMIT_LANES_H

#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <vector>

namespace anabranch {
namespace codegen {

struct Lanes {
  enum class Kind { Uniform, Linear, Varying };

  Kind kind = Kind::Uniform;
  /// The scalar, the scalar of lane 0, or the vector.
  mlir::Value value;
  /// Linear: lane i is `value + step * i`; never zero.
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

/// The type of one lane: of a scalar itself, of a vector its element.
mlir::Type laneType(mlir::Value value);

class LaneBuilder;

/// The bits of a scalar or a vector as another type of the same width. What
/// they were made of by other casts of bits is cast at once, so that no value
/// passes through a type that the processor may lack.
mlir::Value castBits(LaneBuilder &lanes, mlir::Value value, mlir::Type element);

/// Creates operations on lanes at one insertion point. Pure operations are
/// shared: making one that dominates already gives that one. Values made inside
/// a Scope end with it, so open one wherever a region is entered.
class LaneBuilder {
public:
  LaneBuilder(mlir::OpBuilder &builder, mlir::Location loc);

  mlir::OpBuilder &builder;
  mlir::Location loc;

  /// The number of lanes, and which of them are active: a vector<width x i1>,
  /// or null when all are. Always null for width 1.
  int64_t width = 1;
  mlir::Value mask;
  /// Whether `mask` may leave lane 0 inactive, or all lanes. Then not even an
  /// address that all lanes share may be read without a look at the mask. In a
  /// loop's tail lane 0 is active.
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

  /// How many scopes are open; things remembered at a depth end with it.
  size_t depth() const { return scopes.size(); }
  /// Runs when the innermost scope ends.
  void atScopeEnd(std::function<void()> action);

  //===-- Scalars --------------------------------------------------------===//

  /// Creates an operation, or finds it if it is pure and was made before.
  template <typename OpTy, typename... Args> mlir::Value make(Args &&...args) {
    mlir::SmallVector<mlir::Value, 1> results;
    mlir::Operation *last = lastMade();
    builder.createOrFold<OpTy>(results, loc, std::forward<Args>(args)...);
    bool isNew = lastMade() != last && results[0].getDefiningOp() == lastMade();
    return share(results[0], isNew);
  }
  /// The shared form of an operation's result. One that is new may be erased;
  /// what a fold found may be in use by code that has yet to be made.
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

  /// The type that a varying value of this element type has.
  mlir::Type vectorType(mlir::Type element) const;
  /// As a vector of `width` lanes; with width 1 the scalar.
  mlir::Value vector(Lanes lanes);
  /// 0, 1, 2, ... as a vector of `element` (index or an integer type).
  mlir::Value iota(mlir::Type element);
  Lanes wrap(mlir::Value scalarOrVector) const;
  /// The active lanes below `count` of a vector starting at lane 0.
  mlir::Value prefixMask(mlir::Value count);
  /// `mask` and the condition; null stands for all lanes.
  mlir::Value andMask(Lanes condition);
  /// arith.maximumf or minimumf: NaN if one is, but of two zeros either.
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
  /// if (condition) ..., with a value per result type from both sides.
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

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_EMIT_LANES_H

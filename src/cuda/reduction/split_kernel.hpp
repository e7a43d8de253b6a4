#pragma once

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "cuda/reduction/reduction.hpp"
#include "cuda/source/specializations.hpp"
#include "cuda/splits/add_splits.hpp"

namespace tconv3d::cuda {

/// bwd_weight in up to three kernels: the products, whose splits leave their sums in the workspace; parts of the
/// gradient of the bias; and what adds both. A family says what its products are.
class SplitKernel : public Kernel {
public:
    SplitKernel(const Problem& problem, const Device& device, int64_t splits, std::function<KernelRequest()> products);

    size_t workspace_bytes() const override;
    void load(const Arguments& arguments, void* stream) const override;
    void compile(bool with_preactivation) const override;
    void execute(const Arguments& arguments, void* stream, void* workspace) const override;

protected:
    /// Launches `products`. The sums are those of all splits, or grad_weight where there is one split.
    virtual void launch_products(const LoadedFunction& products, const Arguments& arguments, void* sums,
                                 void* stream) const = 0;

    template <typename Args>
    static void start(const LoadedFunction& function, int64_t ctas, int64_t threads, Args& args, void* stream) {
        std::array<void*, 1> kernel_arguments = {&args};
        launch(*function.get(stream), {ctas}, {threads}, kernel_arguments.data(), stream);
    }

private:
    bool has_second_pass(const Arguments& arguments) const;

    ReductionBiasArguments bias_args_;
    int64_t bias_ctas_;
    AddSplitsArguments sums_;
    int64_t weight_sums_; ///< of all splits; 0 where the only one stores grad_weight
    LoadedFunction products_, bias_;
    AddSplits add_;
};

/// A candidate for each tile whose CTAs a grid can number; `items(problem, tile)` of them share a split.
template <typename TileKernel, typename Tile, typename Items>
Answer answer_with_tiles(const Question& question, const std::vector<Tile>& tiles, const Items& items) {
    constexpr int64_t kMostItems = int64_t{1} << 30;
    Answer answer;
    for (const Tile& tile : tiles) {
        if (items(question.problem, tile) * tile.splits >= kMostItems) continue;
        const auto prepare = [problem = question.problem, device = question.device, tile] {
            return std::make_unique<TileKernel>(problem, device, tile);
        };
        answer.candidates.push_back({tile.str(), tile.microseconds, prepare});
    }
    if (answer.candidates.empty())
        answer.reason = "has no tile that fits into shared memory and whose work is counted in 32 bits";
    return answer;
}

} // namespace tconv3d::cuda

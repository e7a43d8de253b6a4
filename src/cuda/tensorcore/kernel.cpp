#include "cuda/tensorcore/kernel.hpp"

#include <array>
#include <future>
#include <vector>

#include "core/direction.hpp"
#include "cuda/runtime/context.hpp"
#include "cuda/source/specializations.hpp"
#include "cuda/tensorcore/pack.hpp"
#include "cuda/tensorcore/source.hpp"
#include "cuda/tensorcore/tensor_map.hpp"

namespace tconv3d::cuda::tensorcore {

namespace {

class TensorCoreKernel final : public Kernel {
public:
    TensorCoreKernel(const Problem& problem, const Epilogue& epilogue, const Device& device, const Tiling& tiling)
        : problem_(problem), epilogue_(epilogue), device_(device), tiling_(tiling),
          args_(kernel_arguments(problem, tiling.tables, tiling.config)),
          packed_words_(packed_words(problem, tiling.tables, tiling.config)),
          parcel_(pack_parcel(problem, tiling.config, device)), pack_grid_(pack_grid(parcel_, packed_words_, device)),
          pack_(device, [this] { return pack_request(problem_, tiling_.tables, tiling_.config, parcel_); }),
          kernels_(device, problem.direction, [this](const ResultForm& form) {
              return kernel_request(problem_, tiling_.tables, tiling_.config, epilogue_, form);
          }) {}

    size_t workspace_bytes() const override { return static_cast<size_t>(packed_words_) * 4; }

    /// Loads both kernels side by side: each is compiled for a while when it is new.
    void load(const Arguments& arguments, void* stream) const override {
        std::future<void> packing;
        if (!config().packs_own_weights() && !pack_.is_loaded()) packing = std::async([&] { pack_.get(stream); });
        kernels_.get(arguments, stream);
        if (packing.valid()) packing.get();
    }

    void compile(bool saves_preactivation) const override {
        std::future<void> packing;
        if (!config().packs_own_weights()) packing = std::async([&] { pack_.compile(); });
        kernels_.compile(saves_preactivation);
        if (packing.valid()) packing.get();
    }

    void execute(const Arguments& arguments, void* stream, void* workspace) const override {
        const bool own_weights = config().packs_own_weights();
        const FunctionPtr products = kernels_.get(arguments, stream);
        const ContextScope scope(products->context); // for the tensor map too
        if (!own_weights) pack(arguments, stream, workspace);
        TensorCoreArguments args = args_;
        args.weights = static_cast<const unsigned char*>(own_weights ? arguments.weight : workspace);
        args.weight_channels_last = arguments.weight_channels_last ? 1 : 0;
        const void* in = is_fwd(problem_) ? arguments.src : arguments.grad_dst;
        args.in = static_cast<const unsigned char*>(in);
        TensorMap map{};
        if (config().input.has_map()) map = encode_map(problem_, config(), in);
        std::vector<const void*> output =
            output_argument(epilogue_, arguments, is_fwd(problem_) ? arguments.dst : arguments.grad_src);
        std::array<void*, 3> kernel_arguments = {&map, &args, static_cast<void*>(output.data())};
        launch(*products, {config().schedule.ctas}, {config().threads()}, kernel_arguments.data(), stream,
               device_.sm >= 90 && !own_weights ? Start::beside : Start::after);
    }

    bool takes_channels_last_weight() const override { return true; }

    std::string describe() const override {
        return std::string(config().engine == Engine::wgmma ? "wgmma" : "mma.sync") +
               (config().gathered() ? " gathered along d: " : " streamed along d: ") + tiling_.name() + "; " +
               config().schedule.str();
    }

private:
    const Config& config() const { return tiling_.config; }

    void pack(const Arguments& arguments, void* stream, void* packed) const {
        const void* weight = arguments.weight;
        int32_t channels_last = arguments.weight_channels_last ? 1 : 0;
        std::array<void*, 3> kernel_arguments = {static_cast<void*>(&weight), static_cast<void*>(&channels_last),
                                                 static_cast<void*>(&packed)};
        launch(*pack_.get(stream), pack_grid_, {kPackThreads}, kernel_arguments.data(), stream);
    }

    Problem problem_;
    Epilogue epilogue_;
    Device device_;
    Tiling tiling_;
    TensorCoreArguments args_;
    int64_t packed_words_;
    PackParcel parcel_;
    Dim3 pack_grid_;
    LoadedFunction pack_;
    Specializations kernels_;
};

} // namespace

std::unique_ptr<Kernel> make_kernel(const Problem& problem, const Epilogue& epilogue, const Device& device,
                                    const Tiling& tiling) {
    return std::make_unique<TensorCoreKernel>(problem, epilogue, device, tiling);
}

} // namespace tconv3d::cuda::tensorcore

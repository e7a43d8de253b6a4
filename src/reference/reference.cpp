#include "reference.hpp"

#include "core/dtype_dispatch.hpp"

namespace tconv3d {

namespace {

/// A dense (n, c, d, h, w) tensor in either layout.
template <typename T>
class Volume {
public:
    Volume(T* data, int64_t channels, const Extents& extents, Layout layout) : data_(data) {
        const int64_t voxels = extents[0] * extents[1] * extents[2];
        const bool planar = layout == Layout::ncdhw;
        batch_stride_ = channels * voxels;
        channel_stride_ = planar ? voxels : 1;
        const int64_t voxel_stride = planar ? 1 : channels;
        strides_ = {extents[1] * extents[2] * voxel_stride, extents[2] * voxel_stride, voxel_stride};
    }

    int64_t index(int64_t n, int64_t c, const Extents& at) const {
        return n * batch_stride_ + c * channel_stride_ + at[0] * strides_[0] + at[1] * strides_[1] +
               at[2] * strides_[2];
    }

    double load(int64_t n, int64_t c, const Extents& at) const { return tconv3d::load(data_[index(n, c, at)]); }

private:
    T* data_;
    int64_t batch_stride_;
    int64_t channel_stride_;
    Extents strides_;
};

/// Calls body(at) for every point of a box, w innermost.
template <typename Body>
void for_each_point(const Extents& box, const Body& body) {
    Extents at;
    for (at[0] = 0; at[0] < box[0]; ++at[0])
        for (at[1] = 0; at[1] < box[1]; ++at[1])
            for (at[2] = 0; at[2] < box[2]; ++at[2]) body(at);
}

template <typename Storage>
class ReferenceLoops {
public:
    ReferenceLoops(const Problem& problem, const Epilogue& epilogue, const Arguments& arguments, Executor& executor)
        : problem_(problem), epilogue_(epilogue), arguments_(arguments), executor_(executor), dst_(problem.dst()) {}

    void fwd() const {
        const int64_t channels = problem_.dst_channels;
        executor_.run(problem_.batch * channels, [&](int64_t task, int) {
            for_each_point(dst_, [&](const Extents& o) { fwd_point(task / channels, task % channels, o); });
        });
    }

    void bwd_data() const {
        const int64_t channels = problem_.src_channels;
        executor_.run(problem_.batch * channels, [&](int64_t task, int) {
            for_each_point(problem_.src,
                           [&](const Extents& i) { bwd_data_point(task / channels, task % channels, i); });
        });
    }

    void bwd_weight() const {
        const int64_t pairs = problem_.src_channels * problem_.dst_channels_per_group();
        executor_.run(pairs, [&](int64_t pair, int) {
            int64_t index = pair * problem_.taps();
            for_each_point(problem_.kernel, [&](const Extents& tap) { bwd_weight_tap(pair, tap, index++); });
        });
        if (arguments_.grad_bias == nullptr) return;
        executor_.run(problem_.dst_channels, [&](int64_t co, int) { bwd_bias(co); });
    }

private:
    template <typename T>
    Volume<T> src_volume(T* data) const {
        return {data, problem_.src_channels, problem_.src, problem_.layout};
    }

    template <typename T>
    Volume<T> dst_volume(T* data) const {
        return {data, problem_.dst_channels, dst_, problem_.layout};
    }

    static const Storage* in(const void* data) { return static_cast<const Storage*>(data); }
    static Storage* out(void* data) { return static_cast<Storage*>(data); }

    double weight(int64_t ci, int64_t co_in_group, const Extents& tap) const {
        const Extents& k = problem_.kernel;
        const int64_t pair = ci * problem_.dst_channels_per_group() + co_in_group;
        return load(in(arguments_.weight)[((pair * k[0] + tap[0]) * k[1] + tap[1]) * k[2] + tap[2]]);
    }

    /// The src index that reaches output `o` through `tap`, if there is one: s·i = o + p − tap·d.
    bool source_of(const Extents& o, const Extents& tap, Extents& i) const {
        for (size_t dim = 0; dim < 3; ++dim) {
            const int64_t scaled = o[dim] + problem_.padding[dim] - tap[dim] * problem_.dilation[dim];
            if (scaled < 0 || scaled % problem_.stride[dim] != 0) return false;
            i[dim] = scaled / problem_.stride[dim];
            if (i[dim] >= problem_.src[dim]) return false;
        }
        return true;
    }

    /// The output that src index `i` reaches through `tap`, if it exists: o = s·i − p + tap·d.
    bool target_of(const Extents& i, const Extents& tap, Extents& o) const {
        for (size_t dim = 0; dim < 3; ++dim) {
            o[dim] = problem_.stride[dim] * i[dim] - problem_.padding[dim] + tap[dim] * problem_.dilation[dim];
            if (o[dim] < 0 || o[dim] >= dst_[dim]) return false;
        }
        return true;
    }

    void fwd_point(int64_t n, int64_t co, const Extents& o) const {
        const int64_t group = co / problem_.dst_channels_per_group();
        const int64_t co_in_group = co % problem_.dst_channels_per_group();
        const int64_t ci_first = group * problem_.src_channels_per_group();
        const auto src = src_volume(in(arguments_.src));
        double sum = arguments_.bias != nullptr ? load(in(arguments_.bias)[co]) : 0.0;
        for_each_point(problem_.kernel, [&](const Extents& tap) {
            Extents i;
            if (!source_of(o, tap, i)) return;
            for (int64_t ci = ci_first; ci < ci_first + problem_.src_channels_per_group(); ++ci)
                sum += src.load(n, ci, i) * weight(ci, co_in_group, tap);
        });
        const int64_t index = dst_volume(out(arguments_.dst)).index(n, co, o);
        if (arguments_.preactivation != nullptr) store(out(arguments_.preactivation)[index], sum);
        store(out(arguments_.dst)[index], apply_epilogue(sum, co, index));
    }

    double apply_epilogue(double x, int64_t co, int64_t index) const {
        for (const Step& step : epilogue_.steps()) {
            double operand = 0;
            if (step.operand >= 0) {
                const Storage* values = in(arguments_.operands[static_cast<size_t>(step.operand)]);
                operand = load(values[takes_channel(step.kind) ? co : index]);
            }
            x = step_value(step, x, operand);
        }
        return x;
    }

    void bwd_data_point(int64_t n, int64_t ci, const Extents& i) const {
        const int64_t channels = problem_.dst_channels_per_group();
        const int64_t co_first = ci / problem_.src_channels_per_group() * channels;
        const auto grad_dst = dst_volume(in(arguments_.grad_dst));
        double sum = 0;
        for_each_point(problem_.kernel, [&](const Extents& tap) {
            Extents o;
            if (!target_of(i, tap, o)) return;
            for (int64_t co = 0; co < channels; ++co) sum += grad_dst.load(n, co_first + co, o) * weight(ci, co, tap);
        });
        store(out(arguments_.grad_src)[src_volume(out(arguments_.grad_src)).index(n, ci, i)], sum);
    }

    void bwd_weight_tap(int64_t pair, const Extents& tap, int64_t index) const {
        const int64_t channels = problem_.dst_channels_per_group();
        const int64_t ci = pair / channels;
        const int64_t co = ci / problem_.src_channels_per_group() * channels + pair % channels;
        const auto src = src_volume(in(arguments_.src));
        const auto grad_dst = dst_volume(in(arguments_.grad_dst));
        double sum = 0;
        for (int64_t n = 0; n < problem_.batch; ++n)
            for_each_point(problem_.src, [&](const Extents& i) {
                Extents o;
                if (target_of(i, tap, o)) sum += src.load(n, ci, i) * grad_dst.load(n, co, o);
            });
        store(out(arguments_.grad_weight)[index], sum);
    }

    void bwd_bias(int64_t co) const {
        const auto grad_dst = dst_volume(in(arguments_.grad_dst));
        double sum = 0;
        for (int64_t n = 0; n < problem_.batch; ++n)
            for_each_point(dst_, [&](const Extents& o) { sum += grad_dst.load(n, co, o); });
        store(out(arguments_.grad_bias)[co], sum);
    }

    const Problem& problem_;
    const Epilogue& epilogue_;
    const Arguments& arguments_;
    Executor& executor_;
    const Extents dst_;
};

class ReferenceKernel final : public Kernel {
public:
    ReferenceKernel(const Problem& problem, const Epilogue& epilogue) : problem_(problem), epilogue_(epilogue) {}

    size_t workspace_bytes(int) const override { return 0; }

    void execute(const Arguments& arguments, Executor& executor, void*) const override {
        with_storage(problem_.dtype, [&](auto* tag) {
            const ReferenceLoops<std::remove_pointer_t<decltype(tag)>> loops(problem_, epilogue_, arguments, executor);
            switch (problem_.direction) {
            case Direction::fwd:
                return loops.fwd();
            case Direction::bwd_data:
                return loops.bwd_data();
            case Direction::bwd_weight:
                return loops.bwd_weight();
            }
        });
    }

    std::string describe() const override { return "nested loops over the definition, summed in double"; }

private:
    Problem problem_;
    Epilogue epilogue_;
};

} // namespace

std::unique_ptr<Kernel> prepare_reference(const Problem& problem, const Epilogue& epilogue) {
    return std::make_unique<ReferenceKernel>(problem, epilogue);
}

Answer<Kernel> answer_reference(const Problem& problem, const Epilogue& epilogue) {
    return {"", {{"", 0, [problem, epilogue] { return prepare_reference(problem, epilogue); }}}};
}

} // namespace tconv3d

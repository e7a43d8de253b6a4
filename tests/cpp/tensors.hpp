#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "core/dtype_dispatch.hpp"
#include "tconv3d/error.hpp"
#include "tconv3d/executor.hpp"
#include "tconv3d/problem.hpp"

namespace tconv3d::testing {

/// A tensor of any dtype. It starts as NaN, lies between guard bytes, and is aligned to its elements only.
class Tensor {
public:
    Tensor(DType dtype, int64_t count)
        : dtype_(dtype), count_(count), guard_(kGuard + static_cast<size_t>(bytes_per_element(dtype))),
          memory_(guard_ + bytes() + kGuard, kGuardByte) {
        std::fill_n(memory_.begin() + static_cast<std::ptrdiff_t>(guard_), bytes(), kNanByte);
    }

    static Tensor integers(DType dtype, int64_t count, int bound, std::mt19937& random) {
        Tensor tensor(dtype, count);
        std::uniform_int_distribution<int> values(-bound, bound);
        for (int64_t i = 0; i < count; ++i) tensor.set(i, values(random));
        return tensor;
    }

    static Tensor reals(DType dtype, int64_t count, std::mt19937& random) {
        Tensor tensor(dtype, count);
        std::uniform_real_distribution<double> values(-2, 2);
        for (int64_t i = 0; i < count; ++i) tensor.set(i, values(random));
        return tensor;
    }

    static Tensor of(DType dtype, const std::vector<double>& values) {
        Tensor tensor(dtype, static_cast<int64_t>(values.size()));
        for (size_t i = 0; i < values.size(); ++i) tensor.set(static_cast<int64_t>(i), values[i]);
        return tensor;
    }

    int64_t count() const { return count_; }
    void* data() { return memory_.data() + guard_; }
    const void* data() const { return memory_.data() + guard_; }

    void set(int64_t i, double value) {
        with_storage(dtype_, [&](auto* tag) { store(static_cast<decltype(tag)>(data())[i], value); });
    }

    double at(int64_t i) const {
        double value = 0;
        with_storage(dtype_, [&](auto* tag) {
            value = load(static_cast<const std::remove_pointer_t<decltype(tag)>*>(data())[i]);
        });
        return value;
    }

    std::vector<double> values() const {
        std::vector<double> all;
        for (int64_t i = 0; i < count_; ++i) all.push_back(at(i));
        return all;
    }

    bool guards_intact() const {
        const auto is_guard = [](unsigned char byte) { return byte == kGuardByte; };
        return std::all_of(memory_.begin(), memory_.begin() + static_cast<std::ptrdiff_t>(guard_), is_guard) &&
               std::all_of(memory_.end() - kGuard, memory_.end(), is_guard);
    }

    bool same_bits(const Tensor& other) const {
        return bytes() == other.bytes() && std::memcmp(data(), other.data(), bytes()) == 0;
    }

private:
    static constexpr size_t kGuard = 64;
    static constexpr unsigned char kGuardByte = 0xA5;
    static constexpr unsigned char kNanByte = 0xFF;

    size_t bytes() const { return static_cast<size_t>(count_ * bytes_per_element(dtype_)); }

    DType dtype_;
    int64_t count_;
    size_t guard_;
    std::vector<unsigned char> memory_;
};

/// Several workers on one thread, tasks from last to first: what depends on the order shows.
class BackwardsExecutor final : public Executor {
public:
    explicit BackwardsExecutor(int workers) : workers_(workers) {}
    int workers() const override { return workers_; }
    void run(int64_t tasks, const std::function<void(int64_t, int)>& body) override {
        for (int64_t task = tasks - 1; task >= 0; --task) body(task, static_cast<int>(task % workers_));
    }

private:
    int workers_;
};

/// Sets an environment variable while it lives.
class ScopedEnvironment {
public:
    ScopedEnvironment(const char* name, const std::string& value) : name_(name) {
        const char* old = std::getenv(name);
        if (old != nullptr) old_ = old;
        had_ = old != nullptr;
        setenv(name, value.c_str(), 1);
    }
    ~ScopedEnvironment() {
        if (had_)
            setenv(name_, old_.c_str(), 1);
        else
            unsetenv(name_);
    }
    ScopedEnvironment(const ScopedEnvironment&) = delete;
    ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

private:
    const char* name_;
    std::string old_;
    bool had_;
};

/// The message of the Error that body throws; empty when it throws none.
template <typename Body>
std::string error_of(const Body& body) {
    try {
        body();
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

} // namespace tconv3d::testing

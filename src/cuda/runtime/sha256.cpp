#include "cuda/runtime/sha256.hpp"

namespace tconv3d::cuda {
namespace {

constexpr size_t kBlockBytes = 64;
constexpr size_t kRounds = 64;

/// The first 32 fractional bits of the cube roots of the first 64 primes.
constexpr std::array<uint32_t, kRounds> kConstants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

using State = std::array<uint32_t, 8>;

uint32_t rotate(uint32_t x, int bits) {
    return (x >> bits) | (x << (32 - bits));
}

uint32_t big_endian(const char* bytes) {
    uint32_t word = 0;
    for (int i = 0; i < 4; ++i) word = (word << 8) | static_cast<uint8_t>(bytes[i]);
    return word;
}

void absorb(State& state, const char* block) {
    std::array<uint32_t, kRounds> w{};
    for (size_t i = 0; i < 16; ++i) w[i] = big_endian(block + 4 * i);
    for (size_t i = 16; i < kRounds; ++i) {
        const uint32_t s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ (w[i - 15] >> 3);
        const uint32_t s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ (w[i - 2] >> 10);
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (size_t i = 0; i < kRounds; ++i) {
        const uint32_t s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
        const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kConstants[i] + w[i];
        const uint32_t s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
        const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    const State mixed = {a, b, c, d, e, f, g, h};
    for (size_t i = 0; i < state.size(); ++i) state[i] += mixed[i];
}

/// What is left of the text, a one bit, zeros, and the length in bits: one block or two.
std::string padded_tail(std::string_view text) {
    std::string tail(text.substr(text.size() / kBlockBytes * kBlockBytes));
    tail += '\x80';
    while (tail.size() % kBlockBytes != kBlockBytes - 8) tail += '\0';
    const uint64_t bits = uint64_t{text.size()} * 8;
    for (int shift = 56; shift >= 0; shift -= 8) tail += static_cast<char>(bits >> shift);
    return tail;
}

} // namespace

Digest sha256(std::string_view text) {
    State state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    for (size_t i = 0; i + kBlockBytes <= text.size(); i += kBlockBytes) absorb(state, text.data() + i);
    const std::string tail = padded_tail(text);
    for (size_t i = 0; i < tail.size(); i += kBlockBytes) absorb(state, tail.data() + i);
    Digest digest{};
    for (size_t i = 0; i < digest.size(); ++i) digest[i] = static_cast<uint8_t>(state[i / 4] >> (24 - 8 * (i % 4)));
    return digest;
}

std::string hexadecimal(const Digest& digest) {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    for (const uint8_t byte : digest) {
        text += kDigits[byte >> 4];
        text += kDigits[byte & 15];
    }
    return text;
}

} // namespace tconv3d::cuda

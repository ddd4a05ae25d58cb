package family

// Latent reports whether attention layers keep one compressed row of each
// position instead of keys and values (MLA).
func (m *Model) Latent() bool { return m.cache.latent }

// Ratio is how many positions share a row of layer i's compressed memory; 1
// where each has its own.
func (m *Model) Ratio(i int) int {
	if m.family.Cache != CacheCompressed || i >= len(m.ratios) {
		return 1
	}
	return max(1, m.ratios[i])
}

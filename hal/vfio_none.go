//go:build !lane_vfio && (lane_pci || lane_tt)

package hal

func newVFIO(*function) lane { return nil }

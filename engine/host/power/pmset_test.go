package power

import "testing"

func TestPmset(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]State{
		"Now drawing from 'AC Power'\n": {Percent: -1},
		"Now drawing from 'AC Power'\n -InternalBattery-0 (id=4325475)\t100%; charged; 0:00 remaining present: true\n":             {Battery: true, Percent: 100},
		"Now drawing from 'AC Power'\n -InternalBattery-0 (id=4325475)\t61%; charging; 1:12 remaining present: true\n":             {Battery: true, Charging: true, Percent: 61},
		"Now drawing from 'Battery Power'\n -InternalBattery-0 (id=4325475)\t83%; discharging; 4:10 remaining present: true\n":     {Battery: true, OnBattery: true, Percent: 83},
		"Now drawing from 'Battery Power'\n -InternalBattery-0 (id=1)\t83%; discharging; (no estimate) present: true\n":            {Battery: true, OnBattery: true, Percent: 83},
		"Now drawing from 'UPS Power'\n -Back-UPS ES\t500%; discharging; 0:10 remaining present: true\n":                           {Battery: true, OnBattery: true, Percent: -1},
		"Now drawing from 'AC Power'\n -InternalBattery-0 (id=1)\t97%; AC attached; not charging present: true\n   something\t%\n": {Battery: true, Percent: 97},
	} {
		got, err := parsePmset(text)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
	if _, err := parsePmset("nothing"); err == nil {
		t.Error("nonsense was accepted")
	}
}
